/** Clusters, pools, policies, SQL warehouses and jobs that are gone for good, with what is said of them. The server is not asked about them again. */
const gone = new Map<string, string>();

const OF_OBJECT =
  /(?:[?&](?:cluster|instance_pool|policy|job)_id=|\/(?:clusters|instance-pools|cluster-policies|warehouses|jobs)\/)([\w-]+)/g;

export const markGone = (id: string, message: string) => void gone.set(id, message);
export const knownGone = (id: string) => gone.has(id);

/** The answer to a call about something that is gone; undefined: the server has to be asked. */
export function answerOfGone(url: string): Response | undefined {
  if (gone.size === 0) return undefined;
  for (const [, id = ""] of url.matchAll(OF_OBJECT)) {
    const message = gone.get(id);
    if (message === undefined) continue;
    return Response.json({ error_code: "RESOURCE_DOES_NOT_EXIST", message }, { status: 404 });
  }
  return undefined;
}
