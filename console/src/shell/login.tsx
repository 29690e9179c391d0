import { useState, useSyncExternalStore, type FormEvent } from "react";
import { problemOf, reach } from "../api/client";
import { codeOf, keepKey, sessionOpen, sessionState } from "../api/session";
import type { S } from "../api/types";
import { Button, Command, Field } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { ProblemBox } from "../ui/problem";

/** Over whatever is open: nothing that was typed below it is lost. */
export function LoginDialog() {
  const state = useSyncExternalStore(sessionState.subscribe, sessionState.current);
  const [pasted, setPasted] = useState("");
  const [problem, setProblem] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  if (state === "open") return null;
  const login = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await openSession(codeOf(pasted));
      setPasted("");
      sessionOpen();
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title="Log in" onClose={null}>
      <form onSubmit={(event) => void login(event)} className="stack">
        <p>
          There is no session, or it is over. Nothing on the page is lost: once you are logged in it
          goes on where it was.
        </p>
        <p>
          On the machine that runs the instance, <Command>trace login-link</Command> prints a link
          for one login.
        </p>
        <Field label="Login link, or the code in it">
          <input
            name="code"
            value={pasted}
            onChange={(event) => setPasted(event.target.value)}
            autoComplete="off"
            spellCheck={false}
            autoFocus
          />
        </Field>
        {problem !== null && <ProblemBox error={problem} />}
        <div className="actions">
          <Button type="submit" look="main" disabled={busy || codeOf(pasted) === ""}>
            {busy ? "Logging in…" : "Log in"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

async function openSession(code: string): Promise<void> {
  const answer = await reach("/v1/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
  });
  if (!answer.ok) throw await problemOf(answer);
  keepKey(((await answer.json()) as S<"LoggedIn">).key ?? "");
}
