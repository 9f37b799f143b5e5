import { tabReader } from "../kit/tabsearch";

export type WarehouseTab = "overview" | "connection" | "monitoring" | "permissions";
export const readWarehouseSearch = tabReader<WarehouseTab>(["overview", "connection", "monitoring", "permissions"]);
