import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../src/trace_platform/console_dist",
    emptyOutDir: true,
    target: "es2022",
    // The gateway's policy allows no data: scripts and no inline ones.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1200,
    rolldownOptions: { checks: { pluginTimings: false } },
  },
  worker: { format: "es" },
});
