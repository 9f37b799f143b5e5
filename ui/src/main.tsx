import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api/client";
import { opensList } from "./api/early";
import { follow, refreshAfterLogIn } from "./api/live";
import { Queries } from "./api/queryclient";
import { session } from "./api/session";
import { router } from "./app/router";
import { theme, variables } from "./app/theme";
import { prepare } from "./compute/prepare";
import { loadTheRest } from "./kit/later";

// The page's policy allows only styles with the nonce of this answer.
const nonce = document.querySelector<HTMLMetaElement>('meta[name="style-nonce"]')?.content ?? "";
setNonce(nonce);

const queries = new Queries({
  defaultOptions: {
    queries: {
      staleTime: 30_000,
      retry: (failures, error) =>
        failures < 2 && !(error instanceof ApiError && error.status < 500 && error.status !== 429),
    },
    mutations: { networkMode: "always" }, // without a network they fail now, and do not happen later
  },
});

const loggedIn = await session.loggedIn();
if (document.readyState === "loading") await new Promise((done) => addEventListener("DOMContentLoaded", done));
const root = document.getElementById("root");
if (root !== null && loggedIn) {
  if (opensList) await prepare(queries, (await session.get()).user_name);
  follow(queries);
  refreshAfterLogIn(queries);
  createRoot(root).render(
    <StrictMode>
      <MantineProvider
        theme={theme}
        cssVariablesResolver={variables}
        defaultColorScheme="auto"
        getStyleNonce={() => nonce}
      >
        <QueryClientProvider client={queries}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  );
  loadTheRest(() => queries.isFetching() > 0);
} else location.replace(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
