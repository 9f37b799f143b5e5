import { Button, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { words } from "../api/client";
import { confirm } from "../kit/confirm";
import { CopyIcon } from "../kit/copy";
import { PlainTable } from "../kit/plaintable";
import { toast } from "../kit/toasts";
import { ago, exactly, useNow } from "../lib/time";

export interface Token {
  token_id: string;
  comment?: string | null;
  creation_time: number;
  expiry_time: number; // -1: never
  created_by_username?: string;
  owner?: string;
  last_used_day?: number | null;
}

const SHOWN = 16; // characters of an id
const DAY_MS = 86_400_000;
const MINUTE = 60_000;

/** "today", "3 d ago": a day is all that is known. */
function lastUse(day: number | null | undefined, now: number): string {
  if (day == null) return "never";
  const days = Math.floor((now - day) / DAY_MS);
  return days < 1 ? "today" : days === 1 ? "yesterday" : `${days} d ago`;
}

function Expiry({ at, now }: { at: number; now: number }) {
  if (at < 0) return <span className="soft">never</span>;
  if (at <= now) return <span className="word bad">expired</span>;
  const days = Math.round((at - now) / DAY_MS);
  return <span title={exactly(at)}>{days < 1 ? "today" : `in ${days} d`}</span>;
}

/** Tokens, with their owners where `owners` is true. `revoke` asks the server. */
export function Tokens({
  tokens,
  owners,
  revoke,
}: {
  tokens: Token[];
  owners: boolean;
  revoke: (token: Token) => Promise<void>;
}) {
  const now = useNow(MINUTE);
  const revoking = useMutation({
    mutationFn: revoke,
    onSuccess: (_, token) => toast(`${token.comment || token.token_id} was revoked.`),
    onError: (error) => toast(words(error), { failed: true }),
  });
  const ask = async (token: Token) => {
    const name = token.comment || token.token_id;
    const whose = owners && token.owner ? ` of ${token.owner}` : "";
    const consequence = "Programs that use it are locked out at once. This cannot be undone.";
    if (await confirm({ title: `Revoke ${name}${whose}?`, consequence, action: "Revoke" })) revoking.mutate(token);
  };
  if (tokens.length === 0) return <Text className="nothing">No tokens.</Text>;
  return (
    <PlainTable heads={["Comment", ...(owners ? ["Owner"] : []), "Created", "Expires", "Last used"]} unseen="Actions">
      {tokens.map((token) => (
        <tr key={token.token_id}>
          <td data-label="Comment">
            <span>
              <b>{token.comment || "No comment"}</b>
              <span className="under mono" title={token.token_id}>
                {token.token_id.slice(0, SHOWN)}
                {token.token_id.length > SHOWN && "…"} <CopyIcon text={token.token_id} what="Copy the id" />
              </span>
            </span>
          </td>
          {owners && (
            <td data-label="Owner">
              <span>
                {token.owner}
                {token.created_by_username !== token.owner && (
                  <span className="under">created by {token.created_by_username}</span>
                )}
              </span>
            </td>
          )}
          <td data-label="Created" title={exactly(token.creation_time)}>
            {ago(token.creation_time, now)}
          </td>
          <td data-label="Expires">
            <Expiry at={token.expiry_time} now={now} />
          </td>
          <td data-label="Last used">{lastUse(token.last_used_day, now)}</td>
          <td className="end">
            <Button
              variant="subtle"
              color="gray"
              loading={revoking.isPending && revoking.variables.token_id === token.token_id}
              aria-label={`Revoke ${token.comment || token.token_id}`}
              onClick={() => void ask(token)}
            >
              Revoke
            </Button>
          </td>
        </tr>
      ))}
    </PlainTable>
  );
}
