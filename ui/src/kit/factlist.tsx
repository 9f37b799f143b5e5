import type { ReactNode } from "react";
import { CopyIcon } from "./copy";

export type Fact = [name: string, value: ReactNode];

/** What is said of one thing, and its id at the end. A fact without a value is left out; those in `less` may be hidden where room is scarce. */
export function FactList({ facts, id, less }: { facts: Fact[]; id: string; less?: ReadonlySet<string> }) {
  return (
    <dl className="facts">
      {facts.map(
        ([name, value]) =>
          value && (
            <div key={name} className={less?.has(name) ? "less" : undefined}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
      <div>
        <dt>Id</dt>
        <dd className="mono">
          {id} <CopyIcon text={id} what="Copy the id" />
        </dd>
      </div>
    </dl>
  );
}
