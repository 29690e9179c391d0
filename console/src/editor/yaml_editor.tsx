import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { setDiagnostics } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useImperativeHandle, useRef, type Ref } from "react";
import { editorTheme } from "./theme";

export interface YamlHandle {
  mark: (mistakes: { line: number; text: string }[]) => void;
}

/** A DAG file; with `before`, what was changed of it is marked. */
export default function YamlEditor({
  value,
  before,
  onChange,
  ref,
}: {
  value: string;
  before: string | null;
  onChange: (yaml: string) => void;
  ref?: Ref<YamlHandle>;
}) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const changed = useRef(onChange);
  changed.current = onChange;
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
          yaml(),
          before === null
            ? []
            : unifiedMergeView({ original: before, mergeControls: false, gutter: true }),
          keymap.of([...defaultKeymap, ...searchKeymap, ...historyKeymap, indentWithTab]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) changed.current(update.state.doc.toString());
          }),
          EditorView.contentAttributes.of({ "aria-label": "DAG file" }),
        ],
      }),
    });
    // It scrolls, so the keyboard has to reach it.
    made.scrollDOM.tabIndex = 0;
    view.current = made;
    return () => made.destroy();
    // Begun anew for another file only: the editor keeps its own text.
  }, [before]);
  useImperativeHandle(ref, () => ({
    mark: (mistakes) => {
      const editor = view.current;
      if (!editor) return;
      const { doc } = editor.state;
      const marks = mistakes
        .filter((each) => each.line >= 1 && each.line <= doc.lines)
        .map((each) => {
          const line = doc.line(each.line);
          const indent = line.text.length - line.text.trimStart().length;
          return {
            from: Math.min(line.to, line.from + indent),
            to: line.to,
            severity: "error" as const,
            message: each.text,
          };
        });
      editor.dispatch(setDiagnostics(editor.state, marks));
    },
  }));
  return <div ref={place} className="editor" />;
}
