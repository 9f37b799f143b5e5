import { Button, NativeSelect } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, words } from "../api/client";
import { confirm } from "../kit/confirm";
import { LineForm } from "../kit/forms";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import { useKeptText } from "../lib/kept";
import { PrincipalInput } from "./principalinput";
import { KINDS, type Kind } from "./principals";
import { levelsQuery, nameOf, permissionsQuery, route, type Securable } from "./rights";

type Answer = Awaited<ReturnType<NonNullable<ReturnType<typeof permissionsQuery>["queryFn"]>>>;
type Entry = Answer["access_control_list"][number];

/** A level that a principal has, or is to have. */
interface Grant {
  kind: Kind;
  name: string;
  level: string;
}

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
  const path = { object_id: on.id };
  const keep = (changed: Answer) => queries.setQueryData(permissionsQuery(on).queryKey, changed);

  /** Gives a level, in place of the one that the principal has. */
  const give = useMutation({
    mutationFn: ({ kind, name, level }: Grant) => {
      const access_control_list = [{ [kind]: name, permission_level: level }];
      return body(api.PATCH(route(on), { params: { path }, body: { access_control_list } }));
    },
    onSuccess: keep,
  });

  /** Takes the level away. The API replaces the whole list: it is read again just before. */
  const take = useMutation({
    mutationFn: async ({ kind, name }: Grant) => {
      const now = await body(api.GET(route(on), { params: { path } }));
      const access_control_list = now.access_control_list.flatMap((each) => {
        const level = own(each);
        const same = kindOf(each) === kind && nameOf(each) === name;
        return level === undefined || same ? [] : [{ [kindOf(each)]: nameOf(each), permission_level: level }];
      });
      return body(api.PUT(route(on), { params: { path }, body: { access_control_list } }));
    },
    onSuccess: keep,
    onError: (error) => toast(words(error), { failed: true }),
  });
  const busy = (name: string) =>
    (give.isPending && give.variables.name === name) || (take.isPending && take.variables.name === name);
  const remove = async (grant: Grant) => {
    const consequence = "Access through a group or as the owner is not affected.";
    if (await confirm({ title: `Remove ${grant.name}?`, consequence, action: "Remove" })) take.mutate(grant);
  };
  if (asked.data === undefined) return <Reading query={asked} what="Reading the permissions" rows={4} />;

  return (
    <>
      {manage && names.length > 0 && <Add give={give.mutateAsync} levels={names} />}
      <PlainTable heads={["Who", "Level", "From"]} unseen="Actions">
        {asked.data.access_control_list.flatMap((entry) =>
          entry.all_permissions.map((permission) => {
            const name = nameOf(entry);
            const owns = kindOf(entry) === "user_name" && name === owner;
            const direct = !permission.inherited && !owns;
            const grant = { kind: kindOf(entry), name, level: permission.permission_level };
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
                      disabled={busy(name)}
                      onChange={(event) =>
                        give.mutate(
                          { ...grant, level: event.currentTarget.value },
                          { onError: (error) => toast(words(error), { failed: true }) },
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
                      loading={busy(name)}
                      aria-label={`Remove ${name}`}
                      onClick={() => void remove(grant)}
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
  give: (grant: Grant) => Promise<unknown>;
  levels: string[];
}

function Add({ give, levels }: AddProps) {
  const [kind, setKind] = useState<Kind>("user_name");
  const [name, setName] = useKeptText("permission");
  const [level, setLevel] = useState(levels[0] ?? "");
  const add = async () => {
    await give({ kind, name: name.trim(), level });
    setName("");
  };
  return (
    <LineForm label="Grant a permission" action="Add" ready={name.trim() !== ""} submit={add}>
      <PrincipalInput
        className="wide"
        size="xs"
        label="Name"
        placeholder="Two letters of a name"
        value={name}
        change={(next, its) => {
          setName(next);
          if (its !== undefined) setKind(its);
        }}
      />
      <NativeSelect
        size="xs"
        label="Kind"
        data={Object.entries(KINDS).map(([value, label]) => ({ value, label }))}
        value={kind}
        onChange={(event) => setKind(event.currentTarget.value as Kind)}
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
