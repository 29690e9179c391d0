import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { sql, SQLDialect } from "@codemirror/lang-sql";
import { bracketMatching } from "@codemirror/language";
import { lintKeymap, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { searchKeymap } from "@codemirror/search";
import { EditorState, Prec } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  placeholder,
} from "@codemirror/view";
import { useEffect, useImperativeHandle, useRef, type Ref } from "react";
import { editorTheme } from "./theme";

export interface Names {
  name: string;
  columns: { name: string; type: string }[];
}

export interface Mistake {
  text: string;
  line: number;
  column: number;
}

/** What to run: all of it, or what is selected, with the place where that begins. */
export interface Chosen {
  sql: string;
  line: number;
  column: number;
}

export interface EditorHandle {
  chosen: () => Chosen;
  replace: (sql: string) => void;
  insert: (text: string) => void;
  mark: (mistake: Mistake | null) => void;
}

const KEYWORDS =
  "select from where group by order having limit offset distinct join left right full inner outer cross semi anti asof on using with recursive as and or not in is null between like ilike exists case when then else end cast union all intersect except exclude replace over partition rows range unbounded preceding following current row qualify filter values pivot unpivot describe summarize show tables explain analyze interval timestamp date asc desc nulls first last true false any at version";
const FUNCTIONS =
  "count sum avg min max median mode stddev quantile_cont any_value arg_max arg_min approx_count_distinct list string_agg histogram row_number rank dense_rank lag lead first_value last_value ntile coalesce nullif greatest least abs round floor ceil sqrt ln lower upper length substring trim concat split_part lpad regexp_matches regexp_extract starts_with contains to_timestamp date_trunc date_part date_diff strftime strptime epoch unnest generate_series list_filter list_transform try_cast typeof unhex from_hex to_0x checksum_address keccak256 topic selector bytes_to_uint bytes_to_int uint_to_bytes mul_exact div_exact mod_exact sum_exact from_wei from_units";
const TYPES =
  "bigint ubigint integer uinteger smallint tinyint hugeint uhugeint bignum double float decimal varchar text blob boolean uuid timestamptz time json";

const dialect = SQLDialect.define({
  keywords: KEYWORDS,
  builtin: FUNCTIONS,
  types: TYPES,
  doubleQuotedStrings: false,
  operatorChars: "*+-%<>!=&|~^/@:",
});

/** Columns of the datasets that the statement names come first. */
function complete(names: () => Names[]) {
  return (context: CompletionContext): CompletionResult | null => {
    const word = context.matchBefore(/[\w"]*/);
    if (!word || (word.from === word.to && !context.explicit)) {
      if (!word || context.state.sliceDoc(word.from - 1, word.from) !== ".") return null;
    }
    const text = context.state.doc.toString().toLowerCase();
    const used = names().filter((each) => text.includes(each.name.toLowerCase()));
    const options = used.flatMap((each) =>
      each.columns.map((column) => ({
        label: column.name,
        type: "property",
        detail: `${column.type.toLowerCase()} · ${each.name}`,
        boost: 3,
      })),
    );
    const seen = new Set<string>();
    const columns = options.filter((each) => !seen.has(each.label) && seen.add(each.label));
    const before = context.state.sliceDoc(Math.max(0, word.from - 60), word.from);
    const tables = names().map((each) => ({
      label: each.name,
      type: "class",
      detail: `${each.columns.length} columns`,
      boost: /\b(from|join|describe|summarize)\s+$/i.test(before) ? 9 : 2,
    }));
    const words = [
      ...FUNCTIONS.split(" ").map((label) => ({ label, type: "function", apply: `${label}(` })),
      ...KEYWORDS.split(" ").map((label) => ({ label, type: "keyword", boost: -1 })),
    ];
    return { from: word.from, options: [...columns, ...tables, ...words], validFor: /^[\w"]*$/ };
  };
}

export default function SqlEditor({
  value,
  names,
  onChange,
  onRun,
  ref,
}: {
  value: string;
  names: Names[];
  onChange: (sql: string) => void;
  onRun: () => void;
  ref: Ref<EditorHandle>;
}) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const now = useRef({ names, onChange, onRun });
  now.current = { names, onChange, onRun };

  useEffect(() => {
    const made = new EditorView({
      parent: place.current!,
      state: EditorState.create({
        doc: value,
        extensions: [
          editorTheme(),
          lineNumbers(),
          history(),
          drawSelection(),
          bracketMatching(),
          closeBrackets(),
          highlightActiveLine(),
          EditorView.lineWrapping,
          placeholder("select … from …    Ctrl Enter runs it, or what is selected"),
          sql({ dialect }),
          autocompletion({ override: [complete(() => now.current.names)], icons: false }),
          Prec.highest(
            keymap.of([
              {
                key: "Mod-Enter",
                run: () => {
                  now.current.onRun();
                  return true;
                },
              },
            ]),
          ),
          keymap.of([
            ...closeBracketsKeymap,
            ...defaultKeymap,
            ...searchKeymap,
            ...historyKeymap,
            ...completionKeymap,
            ...lintKeymap,
            indentWithTab,
          ]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) now.current.onChange(update.state.doc.toString());
          }),
          EditorView.contentAttributes.of({ "aria-label": "SQL statement" }),
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
    // The editor keeps its own text from here on.
  }, []);

  useImperativeHandle(ref, () => handle(() => view.current));
  return <div ref={place} className="editor" />;
}

function handle(get: () => EditorView | null): EditorHandle {
  return {
    chosen: () => {
      const state = get()?.state;
      if (!state) return { sql: "", line: 1, column: 1 };
      const { from, to, empty } = state.selection.main;
      if (empty) return { sql: state.doc.toString(), line: 1, column: 1 };
      const line = state.doc.lineAt(from);
      return { sql: state.sliceDoc(from, to), line: line.number, column: from - line.from + 1 };
    },
    replace: (text) => {
      const editor = get();
      editor?.dispatch({
        changes: { from: 0, to: editor.state.doc.length, insert: text },
        selection: { anchor: text.length },
      });
      editor?.focus();
    },
    insert: (text) => {
      const editor = get();
      editor?.dispatch(editor.state.replaceSelection(text));
      editor?.focus();
    },
    mark: (mistake) => {
      const editor = get();
      if (!editor) return;
      editor.dispatch(setDiagnostics(editor.state, mistake ? [at(editor.state, mistake)] : []));
    },
  };
}

function at(state: EditorState, mistake: Mistake): Diagnostic {
  const line = state.doc.line(Math.min(Math.max(1, mistake.line), state.doc.lines));
  const from = Math.min(line.to, line.from + Math.max(0, mistake.column - 1));
  const word = /^\w+/.exec(state.sliceDoc(from, line.to))?.[0] ?? "";
  const to = Math.min(state.doc.length, from + Math.max(1, word.length));
  return { from: Math.min(from, to), to, severity: "error", message: mistake.text };
}
