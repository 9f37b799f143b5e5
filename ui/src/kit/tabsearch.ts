/** Reads a page's tab from its address; one that the page has not is left out. */
export const tabReader =
  <Tab extends string>(tabs: readonly Tab[]) =>
  (given: Record<string, unknown>): { tab?: Tab } => {
    const tab = tabs.find((each) => each === given.tab);
    return tab === undefined ? {} : { tab };
  };
