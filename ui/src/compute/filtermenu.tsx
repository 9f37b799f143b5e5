import { Button, Checkbox, Popover, ScrollArea, Stack } from "@mantine/core";
import { useFirstMenu } from "../kit/later";
import { PlainButton } from "../kit/plain";
import { figure } from "../lib/sizes";
import { type ChipProps, ChipText } from "./chip";

/** The values of a filter, with how many clusters have them. It is opened as it is made. */
export default function FilterMenu(props: ChipProps) {
  const { label, of, chosen, choose, clusters, nameFor } = props;
  const { opened, setOpened, button } = useFirstMenu();
  const counts = new Map<string, number>();
  if (opened)
    for (const cluster of clusters)
      for (const value of of(cluster)) if (value) counts.set(value, (counts.get(value) ?? 0) + 1);
  for (const value of chosen) if (!counts.has(value)) counts.set(value, 0);
  const toggle = (value: string) =>
    choose(chosen.includes(value) ? chosen.filter((each) => each !== value) : [...chosen, value]);
  return (
    <Popover
      opened={opened}
      onChange={setOpened}
      position="bottom-start"
      shadow="md"
      withinPortal
      trapFocus
      returnFocus
    >
      <Popover.Target>
        <PlainButton ref={button} on={chosen.length > 0} onClick={() => setOpened(!opened)}>
          <ChipText {...props} />
        </PlainButton>
      </Popover.Target>
      <Popover.Dropdown aria-label={label}>
        <ScrollArea.Autosize mah={280} miw={200}>
          <Stack gap={8}>
            {[...counts]
              .sort(([one], [other]) => nameFor(one).localeCompare(nameFor(other)))
              .map(([value, count]) => (
                <Checkbox
                  key={value}
                  label={`${nameFor(value)} (${figure(count)})`}
                  checked={chosen.includes(value)}
                  onChange={() => toggle(value)}
                />
              ))}
            {counts.size === 0 && <span>No values.</span>}
          </Stack>
        </ScrollArea.Autosize>
        {chosen.length > 0 && (
          <Button mt="xs" variant="subtle" color="gray" onClick={() => choose([])}>
            Clear
          </Button>
        )}
      </Popover.Dropdown>
    </Popover>
  );
}
