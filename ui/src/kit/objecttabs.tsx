import { Tabs } from "@mantine/core";
import type { ReactNode } from "react";
import { TabList } from "./tablist";

export interface ObjectTab<Tab extends string> {
  tab: Tab;
  label: string;
  content: ReactNode;
}

interface Props<Tab extends string> {
  label: string;
  tabs: ObjectTab<Tab>[]; // the first is shown where the address names none
  chosen: Tab | undefined;
  open: (tab: Tab | undefined) => void; // undefined: the first one
}

/** The tabs of an object's page, and what the chosen one holds. */
export function ObjectTabs<Tab extends string>({ label, tabs, chosen, open }: Props<Tab>) {
  const first = tabs[0]?.tab;
  const shown = tabs.some((each) => each.tab === chosen) ? chosen : first;
  return (
    <Tabs
      value={shown}
      onChange={(next) => open(next === first ? undefined : (next as Tab))}
      keepMounted={false}
      className="tabs"
    >
      <TabList label={label} chosen={shown}>
        {tabs.map((each) => (
          <Tabs.Tab key={each.tab} value={each.tab}>
            {each.label}
          </Tabs.Tab>
        ))}
      </TabList>
      {tabs.map((each) => (
        <Tabs.Panel key={each.tab} value={each.tab} className="tab">
          {each.content}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
