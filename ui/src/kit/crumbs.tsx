import { Anchor, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { lastList } from "./lastlist";
import type { ListTab } from "./listsearch";

/** The way back to a list of the Compute page. */
export function Crumbs({ tab, label }: { tab?: ListTab; label?: string }) {
  return (
    <nav aria-label="Breadcrumb">
      <Text size="sm">
        <Anchor renderRoot={(props) => <Link to="/compute" search={lastList(tab)} {...props} />} c="dimmed" size="sm">
          {label ?? "Compute"}
        </Anchor>
      </Text>
    </nav>
  );
}
