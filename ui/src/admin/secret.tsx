import { Button, Group, Modal, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { api, body } from "../api/client";
import { offered } from "../api/session";
import { CopyButton } from "../kit/copy";
import { DialogForm } from "../kit/forms";

const DAY_S = 86_400;
const LIFETIMES = [
  { value: String(30 * DAY_S), label: "30 days" },
  { value: String(90 * DAY_S), label: "90 days" },
  { value: String(365 * DAY_S), label: "A year" },
  { value: "", label: "Does not expire" },
];
export const LIFETIME = String(90 * DAY_S);

/** Whether an administrator can make tokens for others. */
export const makesForOthers = () => offered("/api/2.1/token-management/tokens");

/** Makes a token: for oneself, or, by an administrator, for somebody else. Returns the secret. */
export async function makeToken(comment: string, lifetime: string, whom?: string): Promise<string> {
  const asked = { comment, ...(lifetime === "" ? {} : { lifetime_seconds: Number(lifetime) }) };
  if (whom === undefined) return (await body(api.POST("/api/2.0/token/create", { body: asked }))).token_value;
  const given = { ...asked, user_name: whom };
  return (await body(api.POST("/api/2.1/token-management/tokens", { body: given }))).token_value;
}

/** `limited`: for what must expire. */
export function Lifetime({
  value,
  change,
  limited = false,
}: {
  value: string;
  change: (value: string) => void;
  limited?: boolean;
}) {
  return (
    <NativeSelect
      size="xs"
      label="Lifetime"
      data={limited ? LIFETIMES.filter((each) => each.value !== "") : LIFETIMES}
      value={value}
      onChange={(event) => change(event.currentTarget.value)}
    />
  );
}

/** A secret that the server will not show again. */
export function Secret({ text, what }: { text: string; what: string }) {
  return (
    <Stack gap={6}>
      <Text>{what} It is shown only once. Copy it before you close this dialog.</Text>
      <div className="secret">
        <code>{text}</code>
        <CopyButton text={text} />
      </div>
    </Stack>
  );
}

/** `whom`: undefined for oneself, or a name that may be typed. */
export function CreateToken({ whom, close, made }: { whom?: string; close: () => void; made: () => void }) {
  const [name, setName] = useState(whom ?? "");
  const [comment, setComment] = useState("");
  const [lifetime, setLifetime] = useState(LIFETIME);
  const [secret, setSecret] = useState("");
  const create = async () => {
    setSecret(await makeToken(comment.trim(), lifetime, whom === undefined ? undefined : name.trim()));
    made();
  };
  return (
    <Modal
      opened
      onClose={close}
      title={secret === "" ? "Create a token" : "New token"}
      centered
      closeOnClickOutside={false}
    >
      {secret !== "" ? (
        <Stack gap="md">
          <Secret text={secret} what={whom === undefined ? "Your new token." : `New token for ${name.trim()}.`} />
          <Group justify="flex-end">
            <Button onClick={close}>Done</Button>
          </Group>
        </Stack>
      ) : (
        <DialogForm action="Create" submit={create} close={close}>
          {whom !== undefined && (
            <TextInput
              label="Owner"
              description="A user's name, or a service principal's application id."
              placeholder="someone@example.com"
              spellCheck={false}
              autoComplete="off"
              required
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              data-autofocus
            />
          )}
          <TextInput
            label="Comment"
            description="What the token is for."
            value={comment}
            onChange={(event) => setComment(event.currentTarget.value)}
            data-autofocus={whom === undefined || undefined}
          />
          <Lifetime value={lifetime} change={setLifetime} />
        </DialogForm>
      )}
    </Modal>
  );
}
