import { tabReader } from "../kit/tabsearch";

export type PoolTab = "instances" | "clusters" | "permissions";
export const readPoolSearch = tabReader<PoolTab>(["instances", "clusters", "permissions"]);
