/** What every page and every row has many of, as plain elements: a component of the library takes ten times as long to draw. */
import { useRouter } from "@tanstack/react-router";
import type { ChangeEvent, ComponentProps, MouseEvent, ReactNode } from "react";

/** A button that is an icon. `tip`: says what it does beside it, when the pointer rests there. */
export function IconButton({ tip, className = "", ...rest }: ComponentProps<"button"> & { tip?: string }) {
  return <button type="button" {...rest} className={`iconbutton ${className}`} data-tip={tip} />;
}

export function PlainButton({ on = false, className = "", ...rest }: ComponentProps<"button"> & { on?: boolean }) {
  return <button type="button" {...rest} className={`plainbutton ${on ? "on" : className}`} />;
}

interface TickProps {
  label: string;
  checked: boolean;
  some?: boolean; // of several, but not all
  onChange: (event: ChangeEvent) => void;
}

export function Tick({ label, checked, some = false, onChange }: TickProps) {
  return (
    <input
      type="checkbox"
      className="tick"
      aria-label={label}
      checked={checked}
      ref={(element) => {
        if (element !== null) element.indeterminate = some;
      }}
      onChange={onChange}
    />
  );
}

/** Whether a click on a link is for the page, and not for another tab or window. */
const isOurs = (event: MouseEvent) =>
  event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);

/** A link to another page of ours. */
export function Go({ to, children, ...rest }: ComponentProps<"a"> & { to: string; children: ReactNode }) {
  const { history } = useRouter();
  return (
    <a
      {...rest}
      href={to}
      onClick={(event) => {
        if (!isOurs(event)) return;
        event.preventDefault();
        history.push(to);
      }}
    >
      {children}
    </a>
  );
}
