import { Button, NativeSelect } from "@mantine/core";
import { PrincipalInput } from "../access/principalinput";
import { KINDS } from "../access/principals";
import { LEVELS, type Level } from "../clusters/rights";
import { Icon } from "../kit/icons";
import type { Grant } from "./calls";
import { RemoveButton } from "./fields";
import { useEditor } from "./state";

const CHOICES = Object.entries(KINDS).map(([value, label]) => ({ value, label }));

/** Who else may use the cluster, one in each row. */
export function Grants() {
  const { grants = [], setGrants: change = () => {} } = useEditor();
  return (
    <div>
      <ul className="scripts" aria-label="Permissions">
        {grants.map((grant, at) => {
          const put = (changed: Partial<Grant>) =>
            change((now) => now.map((each, other) => (other === at ? { ...each, ...changed } : each)));
          return (
            <li
              // biome-ignore lint/suspicious/noArrayIndexKey: a permission is what is at that place
              key={at}
              className="script"
            >
              <NativeSelect
                size="xs"
                aria-label={`Kind of permission ${at + 1}`}
                data={CHOICES}
                value={grant.kind}
                onChange={(event) => put({ kind: event.currentTarget.value as Grant["kind"] })}
              />
              <PrincipalInput
                className="where"
                kind={grant.kind}
                aria-label={`Who has permission ${at + 1}`}
                placeholder={grant.kind === "group_name" ? "data-team" : "someone@example.com"}
                value={grant.name}
                change={(name) => put({ name })}
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
                onClick={() => change((now) => now.filter((_, other) => other !== at))}
              />
            </li>
          );
        })}
      </ul>
      <div className="under">
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => change((now) => [...now, { kind: "user_name", name: "", level: "CAN_ATTACH_TO" }])}
        >
          Add a permission
        </Button>
        <span className="help">Granted when the cluster is created. You and administrators have all permissions.</span>
      </div>
    </div>
  );
}
