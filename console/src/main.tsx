import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { asProblem } from "./api/client";
import { listen } from "./live/live";
import { Refresher } from "./live/refresh";
import { router } from "./router";
import { linkIs } from "./shell/link_state";
import "./ui/base.css";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // Changes are told; between them what was answered stays true.
      staleTime: 5_000,
      refetchOnWindowFocus: false,
      networkMode: "always",
      retry: (failures, error) => {
        const { status } = asProblem(error);
        return failures < 2 && (status === 0 || status >= 500 || status === 429);
      },
    },
    mutations: { networkMode: "always" },
  },
});

const refresher = new Refresher(client);
listen((told) => {
  if (told.type === "link") linkIs(told.up);
  else refresher.heard(told);
});

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
