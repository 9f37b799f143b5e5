import { Badge, Text } from "@mantine/core";
import { hint, type Rule } from "../editor/policy";
import { PlainTable } from "../kit/plaintable";

interface Written extends Rule {
  value?: unknown;
  defaultValue?: unknown;
  isOptional?: boolean;
  hidden?: boolean;
}

/** What a rule says, in words. What it means is the server's business. */
function says(rule: Written): string {
  if (rule.type === "fixed") return `is ${String(rule.value)}`;
  if (rule.type === "forbidden") return "must not be set";
  if (rule.type === "unlimited") return "can be anything";
  return hint(rule)?.replace("Policy: ", "") ?? JSON.stringify(rule);
}

function parsed(text: string): [string, Written][] | undefined {
  try {
    return Object.entries(JSON.parse(text) as Record<string, Written>);
  } catch {
    return undefined;
  }
}

/** A definition as a table. */
export function Rules({ definition }: { definition: string }) {
  const rules = parsed(definition);
  if (rules === undefined) return <Text>The definition is not valid JSON. See the JSON tab.</Text>;
  if (rules.length === 0) return <Text c="dimmed">No rules. Everything is allowed.</Text>;
  return (
    <PlainTable heads={["Attribute", "Type", "Rule", "Default"]} unseen="Notes">
      {rules.map(([path, rule]) => (
        <tr key={path}>
          <td data-label="Attribute" className="mono">
            {path}
          </td>
          <td data-label="Type">{rule.type}</td>
          <td data-label="Rule">{says(rule)}</td>
          <td data-label="Default">{rule.defaultValue === undefined ? "" : String(rule.defaultValue)}</td>
          <td className="end">
            {rule.isOptional && <Note>optional</Note>}
            {rule.hidden && <Note>hidden</Note>}
          </td>
        </tr>
      ))}
    </PlainTable>
  );
}

const Note = ({ children }: { children: string }) => (
  <Badge variant="default" size="xs" radius="sm" tt="none" fw={500} ml={4}>
    {children}
  </Badge>
);
