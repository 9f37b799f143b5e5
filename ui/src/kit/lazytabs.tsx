import { Loader, Tabs } from "@mantine/core";
import { type ComponentType, Suspense } from "react";
import { offered } from "../api/session";
import { TabList } from "./tablist";

/** `of`: what the workspace has to have for the tab. */
export interface LazyTab<Name extends string, Props> {
  tab: Name;
  label: string;
  of?: string;
  Content: ComponentType<Props>;
}

interface Props<Name extends string, P> {
  label: string;
  tabs: LazyTab<Name, P>[]; // the first is shown unless another one is chosen
  chosen: Name | undefined;
  open: (tab: Name) => void;
  content: P;
}

/** Tabs whose code is loaded when they are opened; without those that the workspace does not have. */
export function LazyTabs<Name extends string, P extends object>({
  label,
  tabs,
  chosen,
  open,
  content,
}: Props<Name, P>) {
  const known = tabs.filter((each) => each.of === undefined || offered(each.of));
  const shown = known.find((each) => each.tab === chosen) ?? known[0];
  return (
    <Tabs value={shown?.tab} onChange={(tab) => open(tab as Name)} keepMounted={false} className="tabs">
      <TabList label={label} chosen={shown?.tab}>
        {known.map((each) => (
          <Tabs.Tab key={each.tab} value={each.tab}>
            {each.label}
          </Tabs.Tab>
        ))}
      </TabList>
      {shown && (
        <Tabs.Panel value={shown.tab} className="tab">
          <Suspense fallback={<Loader size="xs" m="md" role="status" aria-label="Loading" />}>
            <shown.Content {...content} />
          </Suspense>
        </Tabs.Panel>
      )}
    </Tabs>
  );
}
