import { Go } from "./plain";

/** Numbers above a list. */
export function Counters({ counters }: { counters: [name: string, value: string][] }) {
  return (
    <div className="counters">
      {counters.map(([name, value]) => (
        <span key={name}>
          {name} <b>{value}</b>
        </span>
      ))}
    </div>
  );
}

interface Props {
  text: string;
  to: "/compute/create" | "/compute/pools/create" | "/compute/warehouses/create" | "/jobs/create";
  label: string;
  code: string; // with the SDK
}

/** How to create the first object of a list. */
export function Beginning({ text, to, label, code }: Props) {
  return (
    <div className="nothing">
      <p>{text}</p>
      <Go to={to} className="plainbutton main">
        {label}
      </Go>
      <p className="soft">Or with the SDK:</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <pre className="sample" tabIndex={0}>
        {code}
      </pre>
    </div>
  );
}
