import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import { Marked, type Tokens } from "marked";
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

/** The id of a heading, as GitHub makes it: links in docs/ name it. */
const anchor = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

/** Pages of docs/ as HTML: `import("../docs/x.md?html")`. Links between them stay in the page; those to other files of the checkout,
 * and pictures, are left as text. */
function documentation(): Plugin {
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }: Tokens.Heading) {
        return `<h${depth} id="${anchor(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
      link({ href, tokens }: Tokens.Link) {
        const text = this.parser.parseInline(tokens);
        const page = /^([\w-]+)\.md(#[\w-]*)?$/.exec(href);
        if (page) return `<a href="/help/${page[1]}${page[2] ?? ""}">${text}</a>`;
        return /^(https:|#)/.test(href) ? `<a href="${href}" rel="noopener">${text}</a>` : text;
      },
      image: ({ text }: Tokens.Image) => `<em>${text.replaceAll("<", "&lt;")}</em>`,
      table(token: Tokens.Table) {
        const row = (cells: Tokens.TableCell[], tag: string) =>
          `<tr>${cells.map((each) => `<${tag}>${this.parser.parseInline(each.tokens)}</${tag}>`).join("")}</tr>`;
        const rows = token.rows.map((each) => row(each, "td")).join("");
        return `<table tabindex="0"><thead>${row(token.header, "th")}</thead><tbody>${rows}</tbody></table>\n`;
      },
      code: ({ text }: Tokens.Code) =>
        `<pre tabindex="0">${text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}</pre>\n`,
    },
  });
  return {
    name: "documentation",
    enforce: "pre",
    load(id) {
      if (!id.endsWith(".md?html")) return null;
      const html = marked.parse(readFileSync(id.replace("?html", ""), "utf8"), { async: false });
      return { code: `export default ${JSON.stringify(html)};`, moduleType: "js" };
    },
  };
}

/** Has the browser read the page's code while `start.ts` runs, which asks for it only then. */
function preloaded(): Plugin {
  return {
    name: "preloaded",
    transformIndexHtml: {
      order: "post",
      handler(_, { bundle }) {
        const chunks = Object.values(bundle ?? {}).filter((each) => each.type === "chunk");
        const main = chunks.find((each) => each.facadeModuleId?.endsWith("/src/main.tsx"));
        const names = new Set(main === undefined ? [] : [main.fileName]);
        for (const name of names)
          for (const needed of chunks.find((each) => each.fileName === name)?.imports ?? []) names.add(needed);
        return [...names].map((name) => ({
          tag: "link",
          attrs: { rel: "modulepreload", crossorigin: true, href: `/assets/${name}` },
          injectTo: "head" as const,
        }));
      },
    },
  };
}

export default defineConfig({
  plugins: [react(), documentation(), compressed(), preloaded()],
  base: "/assets/",
  build: {
    target: "es2022",
    assetsDir: "",
    assetsInlineLimit: 0, // the page's policy allows no data: sources
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: { index: "index.html", main: "src/main.tsx" },
      output: {
        // Few files: each takes time to be asked for. Those of others change less often than ours, and stay in browsers' caches.
        codeSplitting: {
          groups: [
            { name: "early", test: /\/src\/api\/early\.ts$|vite\/preload-helper/, priority: 1 }, // what `start.ts` needs
            { name: "libraries", tags: ["$initial"], test: /node_modules.*\.m?js$/ },
            { name: "list", tags: ["$initial"], test: /\/src\/(?!start).*\.tsx?$/ },
          ],
        },
      },
    },
    chunkSizeWarningLimit: 800,
    manifest: true, // build.py adds up what the first page loads, and removes it
  },
});
