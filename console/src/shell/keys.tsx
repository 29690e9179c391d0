import { Dialog } from "../ui/dialog";
import { PLACES } from "./pages";

export function KeysHelp({ onClose }: { onClose: () => void }) {
  const keys: [string, string][] = [
    ["/  or  Ctrl K", "Go to anything"],
    ["?", "These keys"],
    ["t", "Dark or light"],
    ["Escape", "Close what is open"],
    ["Ctrl Enter", "Query: run the statement, or what is selected of it"],
    ["Arrows, Enter", "Graph: move between neighbours, open one"],
  ];
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl className="keys">
        {keys.map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
        {PLACES.map((place) => (
          <div key={place.to}>
            <dt>
              <kbd>g</kbd> <kbd>{place.key}</kbd>
            </dt>
            <dd>{place.label}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
