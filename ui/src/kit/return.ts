import { useRouter } from "@tanstack/react-router";

/** Leads back to where one came from; where one came from elsewhere, or opened the page by its address, to `otherwise`. */
export function useReturn(otherwise: () => unknown): () => void {
  const { history } = useRouter();
  return () => (history.canGoBack() ? history.back() : void otherwise());
}
