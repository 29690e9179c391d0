import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import * as ask from "../api/queries";
import { IconButton } from "../ui/basics";
import { Icon } from "../ui/icons";
import { Toasts } from "../ui/toast";
import { KeysHelp } from "./keys";
import { LoginDialog } from "./login";
import { useLink } from "./link_state";
import { PLACES } from "./pages";
import { Palette } from "./palette";
import { useKeys } from "./shortcuts";
import { toggleTheme, useTheme } from "./theme";

type Over = "palette" | "keys" | null;

export function Shell() {
  const navigate = useNavigate();
  const [over, setOver] = useState<Over>(null);
  const [menu, setMenu] = useState(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  useEffect(() => setMenu(false), [path]);
  const go = Object.fromEntries(
    PLACES.map((place) => [`g ${place.key}`, () => void navigate({ to: place.to })]),
  );
  useKeys({
    ...go,
    "/": () => setOver("palette"),
    "mod+k": () => setOver("palette"),
    "?": () => setOver("keys"),
    t: toggleTheme,
  });
  return (
    <div className={menu ? "shell menu-open" : "shell"}>
      <a className="skip" href="#page">
        Skip to the page
      </a>
      <header className="phone-head">
        <IconButton icon="menu" label="Menu" aria-expanded={menu} onClick={() => setMenu(!menu)} />
        <Link to="/" className="brand">
          <Mark /> Trace
        </Link>
        <IconButton icon="search" label="Search" onClick={() => setOver("palette")} />
      </header>
      <Side onSearch={() => setOver("palette")} onKeys={() => setOver("keys")} />
      {menu && <div className="veil" onClick={() => setMenu(false)} />}
      <main id="page" className="page" tabIndex={-1}>
        <Away />
        <Outlet />
      </main>
      {over === "palette" && <Palette onClose={() => setOver(null)} />}
      {over === "keys" && <KeysHelp onClose={() => setOver(null)} />}
      <LoginDialog />
      <Toasts />
    </div>
  );
}

function Side({ onSearch, onKeys }: { onSearch: () => void; onKeys: () => void }) {
  const theme = useTheme();
  const health = useQuery(ask.health());
  const firing = health.data?.rules.filter((rule) => rule.firing).length ?? 0;
  return (
    <nav className="side" aria-label="Pages">
      <Link to="/" className="brand only-wide">
        <Mark /> Trace
      </Link>
      <button type="button" className="side-search" onClick={onSearch}>
        <Icon name="search" size={14} /> <span>Go to…</span> <kbd>/</kbd>
      </button>
      {(["", "Data", "Work", "System"] as const).map((group) => (
        <div key={group} className="side-group">
          {group && <div className="side-title">{group}</div>}
          {PLACES.filter((place) => place.group === group).map((place) => (
            <Link
              key={place.to}
              to={place.to}
              activeOptions={{ exact: place.to === "/" }}
              className="side-link"
              activeProps={{ className: "side-link here", "aria-current": "page" }}
            >
              <Icon name={place.icon} /> <span>{place.label}</span>
              {place.to === "/health/" && firing > 0 && (
                <span className="side-count" title={`${firing} health rules fire`}>
                  {firing}
                </span>
              )}
            </Link>
          ))}
        </div>
      ))}
      <div className="side-foot">
        <LinkState />
        <IconButton icon="keys" label="Keys" onClick={onKeys} />
        <IconButton
          icon={theme === "dark" ? "sun" : "moon"}
          label={theme === "dark" ? "Light theme" : "Dark theme"}
          onClick={toggleTheme}
        />
      </div>
    </nav>
  );
}

function LinkState() {
  const up = useLink();
  if (up === null) return <span className="link-state">connecting</span>;
  return up ? (
    <span className="link-state up" title="Changes arrive as they happen">
      live
    </span>
  ) : (
    <span className="link-state down" title="Changes do not arrive at the moment">
      reconnecting
    </span>
  );
}

/** The instance is away for longer than a moment. */
function Away() {
  const up = useLink();
  const [late, setLate] = useState(false);
  useEffect(() => {
    setLate(false);
    if (up !== false) return;
    const timer = setTimeout(() => setLate(true), 2500);
    return () => clearTimeout(timer);
  }, [up]);
  if (!late) return null;
  return (
    <p className="away" role="status">
      The instance does not answer. What is shown is from before; the page goes on by itself when it
      is back.
    </p>
  );
}

function Mark() {
  return <img src="/mark.svg" alt="" width={20} height={20} />;
}
