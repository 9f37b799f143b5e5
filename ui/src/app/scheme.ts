import { useMantineColorScheme } from "@mantine/core";

/** What changes the page's colours, and what it is called. */
export function useScheme() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const dark = colorScheme === "dark" || (colorScheme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  return {
    icon: dark ? "sun" : "moon",
    label: dark ? "Use light colours" : "Use dark colours",
    change: () => setColorScheme(dark ? "light" : "dark"),
  } as const;
}
