// Before the first paint, so that no page appears in the wrong colours.
(function () {
  var kept = null;
  try {
    kept = localStorage.getItem("trace.theme");
  } catch {
    // A browser that keeps nothing follows the system.
  }
  var dark = kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
