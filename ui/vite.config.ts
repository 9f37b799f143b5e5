import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** Writes every text file compressed beside it: the server only chooses. */
function compressed(): Plugin {
  let folder = "";
  return {
    name: "compressed",
    configResolved(config) {
      folder = config.build.outDir;
    },
    closeBundle() {
      for (const name of readdirSync(folder).filter((each) => /\.(js|css|svg)$/.test(each))) {
        const text = readFileSync(join(folder, name));
        writeFileSync(join(folder, `${name}.br`), brotliCompressSync(text));
        writeFileSync(join(folder, `${name}.gz`), gzipSync(text, { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), compressed()],
  base: "/assets/",
  build: {
    target: "es2022",
    assetsDir: "",
    assetsInlineLimit: 0, // the page's policy allows no data: sources
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 800,
    manifest: true, // build.py adds up what the first page loads, and removes it
  },
});
