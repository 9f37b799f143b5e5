import type { Cluster } from "../api/client";
import type { May } from "../clusters/rights";
import type { ClusterSearch, Tab } from "./search";

/** What every tab of a cluster's page gets. */
export interface TabProps {
  cluster: Cluster;
  may: May;
  live: boolean;
  search: ClusterSearch;
  /** Changes what the tab shows, in the page's address. */
  change: (changed: Partial<ClusterSearch>) => void;
  open: (tab: Tab, more?: Partial<ClusterSearch>) => void;
}
