// Takes the code from behind the '#', which no server sees, and opens a session with it.
const said = document.getElementById("said");
const form = document.getElementById("form");

function ask(text) {
  said.textContent = text;
  form.hidden = false;
  form.elements.code.focus();
}

async function open(code) {
  let answer;
  try {
    answer = await fetch("/v1/session", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Trace-CSRF": "1" },
      body: JSON.stringify({ code }),
    });
  } catch {
    return ask("The instance does not answer. Is it running?");
  }
  if (answer.ok) {
    localStorage.setItem("trace.session", (await answer.json()).key);
    return location.replace("/");
  }
  const problem = await answer.json().catch(() => ({}));
  ask(problem.detail || `That did not work (${answer.status}).`);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  open(form.elements.code.value);
});

const code = location.hash.slice(1);
// Not kept in the address, nor in the history.
history.replaceState(null, "", location.pathname);
if (code) open(code);
else ask("Paste a login link.");
