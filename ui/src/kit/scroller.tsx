import type { ReactNode, Ref } from "react";

interface Props {
  label: string;
  className: string;
  children: ReactNode;
  ref?: Ref<HTMLElement>;
  onScroll?: () => void;
}

/** A part of the page that scrolls by itself, and so can be reached with the keyboard. */
export function Scroller({ label, children, ...rest }: Props) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard
    <section {...rest} aria-label={label} tabIndex={0}>
      {children}
    </section>
  );
}
