import { Anchor, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { lastList } from "./lastlist";
import type { ListTab } from "./listsearch";

/** The way back to a list: of the Compute page, unless `to` names another. */
export function Crumbs({ tab, label, to }: { tab?: ListTab; label?: string; to?: "/jobs" }) {
  const way = to === undefined ? ({ to: "/compute", search: lastList(tab) } as const) : ({ to, search: {} } as const);
  return (
    <nav aria-label="Breadcrumb">
      <Text size="sm">
        <Anchor renderRoot={(props) => <Link {...way} {...props} />} c="dimmed" size="sm">
          {label ?? "Compute"}
        </Anchor>
      </Text>
    </nav>
  );
}
