import { Tabs } from "@mantine/core";
import type { ReactNode } from "react";
import { useInSight } from "./insight";

/** The tabs of a page. */
export function TabList({
  label,
  chosen,
  children,
}: {
  label: string;
  chosen: string | undefined;
  children: ReactNode;
}) {
  return (
    <Tabs.List ref={useInSight<HTMLDivElement>(chosen)} aria-label={label}>
      {children}
    </Tabs.List>
  );
}
