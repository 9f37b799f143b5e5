import { ActionIcon, Button, Loader, Menu, Stack, Text } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { RowData } from "@tanstack/react-table";
import type { ReactNode } from "react";
import { DataTable } from "./datatable";
import { Icon } from "./icons";
import type { DataColumn } from "./listing";
import { Search } from "./searchfield";

interface Props<T extends RowData> {
  label: string;
  objects: T[];
  idOf: (object: T) => string;
  nameOf: (object: T) => string;
  textsOf: (object: T) => string[]; // what is searched
  columns: DataColumn<T>[];
  busy: string; // the id of the object that waits for the server
  menu: (object: T) => ReactNode;
  none: string; // of them there are no objects at all, or none that matches
  children?: ReactNode; // between the search and the table
}

/** A list of the Compute page whose rows have menus, searched and sorted by the page's address. */
export function ObjectList<T extends RowData>(props: Props<T>) {
  const { label, objects, idOf, nameOf, textsOf, columns, busy, menu, none, children } = props;
  const { q = "", sort } = useSearch({ from: "/compute" });
  const navigate = useNavigate({ from: "/compute" });
  const change = (changed: { q?: string; sort?: string }) =>
    void navigate({ search: (old) => ({ ...old, ...changed }), replace: true });
  const shown = objects.filter((each) => textsOf(each).some((text) => text.toLowerCase().includes(q.toLowerCase())));
  return (
    <>
      <search aria-label={label}>
        <Search text={q} change={(next) => change({ q: next || undefined })} />
      </search>
      {children}
      {shown.length === 0 ? (
        <Stack className="nothing" align="flex-start" gap="xs">
          <Text>{none}</Text>
          {objects.length > 0 && (
            <Button variant="default" onClick={() => change({ q: undefined })}>
              Clear the search
            </Button>
          )}
        </Stack>
      ) : (
        <DataTable
          label={`List of ${label.toLowerCase()}`}
          rows={shown}
          idOf={idOf}
          columns={columns}
          sort={sort}
          onSort={(next) => change({ sort: next })}
          actions={(object) =>
            busy === idOf(object) ? (
              <Loader size="xs" role="img" aria-label="Waiting for the server" />
            ) : (
              <Menu position="bottom-end" withinPortal>
                <Menu.Target>
                  <ActionIcon variant="subtle" color="gray" aria-label={`Actions on ${nameOf(object)}`}>
                    <Icon name="more" />
                  </ActionIcon>
                </Menu.Target>
                <Menu.Dropdown>{menu(object)}</Menu.Dropdown>
              </Menu>
            )
          }
        />
      )}
    </>
  );
}
