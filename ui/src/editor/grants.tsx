import { Button, NativeSelect, TextInput } from "@mantine/core";
import { api, body, words } from "../api/client";
import { Icon } from "../app/icons";
import { LEVELS, type Level } from "../cluster/rights";
import { RemoveButton } from "./fields";

/** A permission that a new cluster is to give. */
export interface Grant {
  kind: "user_name" | "group_name" | "service_principal_name";
  name: string;
  level: Level;
}

const KINDS: { value: Grant["kind"]; label: string }[] = [
  { value: "user_name", label: "User" },
  { value: "group_name", label: "Group" },
  { value: "service_principal_name", label: "Service principal" },
];

/** Without rows in which nobody was named. */
export const named = (grants: Grant[]) => grants.filter((each) => each.name.trim() !== "");

/** Gives them one by one, so that what is wrong with one keeps back no other. Returns what the server says against each. */
export async function give(id: string, grants: Grant[]): Promise<string[]> {
  const refused: string[] = [];
  for (const { kind, name, level } of named(grants)) {
    try {
      const access_control_list = [{ [kind]: name.trim(), permission_level: level }];
      const params = { path: { object_id: id } };
      await body(api.PATCH("/api/2.0/permissions/clusters/{object_id}", { params, body: { access_control_list } }));
    } catch (error) {
      refused.push(`${level} for ${name.trim()}: ${words(error)}`);
    }
  }
  return refused;
}

/** Who else may use the cluster, one in each row. */
export function Grants({ grants, change }: { grants: Grant[]; change: (grants: Grant[]) => void }) {
  return (
    <div>
      <ul className="scripts" aria-label="Permissions">
        {grants.map((grant, at) => {
          const put = (changed: Partial<Grant>) =>
            change(grants.map((each, other) => (other === at ? { ...each, ...changed } : each)));
          return (
            <li
              // biome-ignore lint/suspicious/noArrayIndexKey: a permission is what is at that place
              key={at}
              className="script"
            >
              <NativeSelect
                size="xs"
                aria-label={`Kind of permission ${at + 1}`}
                data={KINDS}
                value={grant.kind}
                onChange={(event) => put({ kind: event.currentTarget.value as Grant["kind"] })}
              />
              <TextInput
                className="where"
                aria-label={`Who has permission ${at + 1}`}
                placeholder={grant.kind === "group_name" ? "data-team" : "someone@example.com"}
                spellCheck={false}
                value={grant.name}
                onChange={(event) => put({ name: event.currentTarget.value })}
              />
              <NativeSelect
                size="xs"
                aria-label={`Level of permission ${at + 1}`}
                data={[...LEVELS]}
                value={grant.level}
                onChange={(event) => put({ level: event.currentTarget.value as Level })}
              />
              <RemoveButton
                label={`Remove permission ${at + 1}`}
                onClick={() => change(grants.filter((_, other) => other !== at))}
              />
            </li>
          );
        })}
      </ul>
      <div className="under">
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => change([...grants, { kind: "user_name", name: "", level: "CAN_ATTACH_TO" }])}
        >
          Add a permission
        </Button>
        <span className="help">Given as soon as the cluster exists. You and administrators may do everything.</span>
      </div>
    </div>
  );
}
