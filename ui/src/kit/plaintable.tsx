import type { ReactNode } from "react";

interface Props {
  heads: string[];
  figures?: string[]; // those of the heads whose cells are figures
  unseen?: string; // the head of a last column, for screen readers alone
  children: ReactNode;
}

/** A table whose rows become cards on a phone. Each cell repeats its head as `data-label`. */
export function PlainTable({ heads, figures, unseen, children }: Props) {
  return (
    <table className="plain">
      <thead>
        <tr>
          {heads.map((head) => (
            <th key={head} scope="col" className={figures?.includes(head) ? "figures" : undefined}>
              {head}
            </th>
          ))}
          {unseen !== undefined && (
            <th scope="col">
              <span className="unseen">{unseen}</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}
