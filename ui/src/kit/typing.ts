import { useDebouncedCallback } from "@mantine/hooks";
import { useRouter } from "@tanstack/react-router";

/** Says what was typed once it settles, unless the reader has meanwhile left for another page: the list still stands until that page
 * has come, and a late change of its address would lead back to it. */
export function useTyping(change: (text: string) => void, ms: number): (text: string) => void {
  const router = useRouter();
  const soon = useDebouncedCallback((text: string, path: string) => {
    if (router.latestLocation.pathname === path) change(text);
  }, ms);
  return (text) => soon(text, router.latestLocation.pathname);
}
