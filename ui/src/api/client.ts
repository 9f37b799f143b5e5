import createClient, { type Middleware } from "openapi-fetch";
import { answerOfGone } from "./gone";
import type { components, paths } from "./schema";
import { session } from "./session";

export type Cluster = components["schemas"]["ClusterDetails"] & { cluster_id: string };
export type State = NonNullable<Cluster["state"]>;

/** An answer of the server that is an error, in its own words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string,
  ) {
    super(message);
  }
}

/** Whether the answer was that there is no such thing. Of a cluster, the API says so with status 400. */
export const isGone = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.status === 400 || error.status === 404);

/** The server did not answer at all. */
export class LostConnection extends Error {
  constructor() {
    super("The server does not answer.");
  }
}

const ownSession: Middleware = {
  async onRequest({ request }) {
    const known = request.method === "GET" ? answerOfGone(request.url) : undefined;
    if (known !== undefined) return known;
    if (request.method !== "GET") request.headers.set("X-CSRF-Token", (await session.get()).csrf_token);
    return request;
  },
  onResponse({ response }) {
    if (response.status === 401) session.expire();
  },
  onError() {
    return new LostConnection();
  },
};

export const api = createClient<paths>({ baseUrl: "" });
api.use(ownSession);

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of a successful answer. Throws ApiError and LostConnection. */
export async function body<T>(asked: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await asked;
  if (response.ok) return data as T;
  const said = (typeof error === "object" && error !== null ? error : {}) as Record<string, string | undefined>;
  const message = said.message ?? said.detail ?? said.error; // of the plain dialect and that of /v1, of SCIM, of API 1.2
  throw new ApiError(
    response.status,
    said.error_code ?? (said.message && said.error) ?? String(response.status),
    message ?? `The server answered with status ${response.status}.`,
    response.headers.get("x-request-id") ?? "",
  );
}

export function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
