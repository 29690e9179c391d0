import { useQuery } from "@tanstack/react-query";
import { useParams, useRouterState } from "@tanstack/react-router";
import { useEffect } from "react";
import { Page } from "../shell/page";
import { Empty } from "../ui/basics";
import { Markdown } from "../ui/markdown";
import { Loaded } from "../ui/problem";

// The documents come with the console: they are there without a network, and of this version.
const DOCUMENTS = import.meta.glob<string>("../../../docs/*.md", {
  query: "?raw",
  import: "default",
});

// The page has it as its heading.
const TITLE = /^# (.*)\n/;

function titleOf(text: string | undefined): string | undefined {
  return text && TITLE.exec(text)?.[1]?.replaceAll("`", "");
}

export function Docs() {
  const { page } = useParams({ from: "/docs/$page" });
  const hash = useRouterState({ select: (state) => state.location.hash });
  const load = DOCUMENTS[`../../../docs/${page}.md`];
  const text = useQuery({
    queryKey: ["doc", page],
    queryFn: () => load?.() ?? Promise.resolve(""),
    enabled: load !== undefined,
    staleTime: Infinity,
  });
  useEffect(() => {
    if (hash && text.data) document.getElementById(hash)?.scrollIntoView();
  }, [hash, text.data]);
  return (
    <Page title={titleOf(text.data) ?? page} doc="console">
      {load === undefined ? (
        <Empty title={`There is no document "${page}"`}>
          The glossary names all that there are.
        </Empty>
      ) : (
        <Loaded query={text}>{(data) => <Markdown text={data.replace(TITLE, "")} />}</Loaded>
      )}
    </Page>
  );
}
