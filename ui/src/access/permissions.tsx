import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, words } from "../api/client";
import { confirm } from "../kit/confirm";
import { LineForm } from "../kit/forms";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import { useKeptText } from "../lib/kept";
import { levelsQuery, nameOf, permissionsQuery, route, type Securable } from "./rights";

type Entry = Awaited<
  ReturnType<NonNullable<ReturnType<typeof permissionsQuery>["queryFn"]>>
>["access_control_list"][number];

const KINDS = { user_name: "User", group_name: "Group", service_principal_name: "Service principal" } as const;
type Kind = keyof typeof KINDS;

const kindOf = (entry: Entry): Kind =>
  entry.group_name ? "group_name" : entry.service_principal_name ? "service_principal_name" : "user_name";
const own = (entry: Entry) => entry.all_permissions.find((each) => !each.inherited)?.permission_level;

interface Props {
  on: Securable;
  owner: string | null | undefined; // who has everything without being granted it
  manage: boolean; // whether the user may change them
}

/** Who may do what with an object, and why. */
export function Permissions({ on, owner, manage }: Props) {
  const asked = useQuery(permissionsQuery(on));
  const levels = useQuery(levelsQuery(on)).data ?? [];
  const names = levels.map((each) => each.permission_level);
  const queries = useQueryClient();
  const [busy, setBusy] = useState("");
  const path = { object_id: on.id };
  if (asked.data === undefined) return <Reading query={asked} what="Reading the permissions" rows={4} />;

  /** Gives a level, in place of the one that the principal has. */
  const give = async (kind: Kind, name: string, level: string) => {
    setBusy(name);
    try {
      const access_control_list = [{ [kind]: name, permission_level: level }];
      const changed = await body(api.PATCH(route(on), { params: { path }, body: { access_control_list } }));
      queries.setQueryData(permissionsQuery(on).queryKey, changed);
    } finally {
      setBusy("");
    }
  };

  /** Takes the level away. The API replaces the whole list: it is read again just before. */
  const remove = async (entry: Entry) => {
    const name = nameOf(entry);
    const consequence = "Access through a group or as the owner is not affected.";
    if (!(await confirm({ title: `Remove ${name}?`, consequence, action: "Remove" }))) return;
    setBusy(name);
    try {
      const now = await body(api.GET(route(on), { params: { path } }));
      const access_control_list = now.access_control_list.flatMap((each) => {
        const level = own(each);
        const same = kindOf(each) === kindOf(entry) && nameOf(each) === name;
        return level === undefined || same ? [] : [{ [kindOf(each)]: nameOf(each), permission_level: level }];
      });
      const changed = await body(api.PUT(route(on), { params: { path }, body: { access_control_list } }));
      queries.setQueryData(permissionsQuery(on).queryKey, changed);
    } catch (error) {
      toast(words(error), { failed: true });
    }
    setBusy("");
  };

  return (
    <>
      {manage && names.length > 0 && <Add give={give} levels={names} />}
      <PlainTable heads={["Who", "Level", "From"]} unseen="Actions">
        {asked.data.access_control_list.flatMap((entry) =>
          entry.all_permissions.map((permission) => {
            const name = nameOf(entry);
            const owns = kindOf(entry) === "user_name" && name === owner;
            const direct = !permission.inherited && !owns;
            return (
              <tr key={`${kindOf(entry)} ${name} ${String(permission.inherited)}`}>
                <td data-label="Who">
                  <span>
                    <b>{name}</b> <span className="soft">{KINDS[kindOf(entry)]}</span>
                  </span>
                </td>
                <td data-label="Level">
                  {direct && manage ? (
                    <NativeSelect
                      size="xs"
                      aria-label={`Level of ${name}`}
                      data={names}
                      value={permission.permission_level}
                      disabled={busy === name}
                      onChange={(event) =>
                        void give(kindOf(entry), name, event.currentTarget.value).catch((error) =>
                          toast(words(error), { failed: true }),
                        )
                      }
                    />
                  ) : (
                    permission.permission_level
                  )}
                </td>
                <td data-label="From" className="soft">
                  {permission.inherited
                    ? `inherited: ${(permission.inherited_from_object ?? []).join(", ")}`
                    : owns
                      ? "owner"
                      : "direct"}
                </td>
                <td className="end">
                  {direct && manage && (
                    <Button
                      variant="subtle"
                      color="gray"
                      loading={busy === name}
                      aria-label={`Remove ${name}`}
                      onClick={() => void remove(entry)}
                    >
                      Remove
                    </Button>
                  )}
                </td>
              </tr>
            );
          }),
        )}
      </PlainTable>
      <dl className="rows">
        {levels.map((each) => (
          <div key={each.permission_level}>
            <dt>{each.permission_level}</dt>
            <dd>{each.description}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

interface AddProps {
  give: (kind: Kind, name: string, level: string) => Promise<void>;
  levels: string[];
}

function Add({ give, levels }: AddProps) {
  const [kind, setKind] = useState<Kind>("user_name");
  const [name, setName] = useKeptText("permission");
  const [level, setLevel] = useState(levels[0] ?? "");
  const add = async () => {
    await give(kind, name.trim(), level);
    setName("");
  };
  return (
    <LineForm label="Grant a permission" action="Add" ready={name.trim() !== ""} submit={add}>
      <NativeSelect
        size="xs"
        label="Kind"
        data={Object.entries(KINDS).map(([value, label]) => ({ value, label }))}
        value={kind}
        onChange={(event) => setKind(event.currentTarget.value as Kind)}
      />
      <TextInput
        className="wide"
        label="Name"
        placeholder={kind === "user_name" ? "someone@example.com" : ""}
        spellCheck={false}
        autoComplete="off"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <NativeSelect
        size="xs"
        label="Level"
        data={levels}
        value={level}
        onChange={(event) => setLevel(event.currentTarget.value)}
      />
    </LineForm>
  );
}
