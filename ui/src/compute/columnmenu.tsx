import { Checkbox, Popover, Stack } from "@mantine/core";
import { Icon } from "../kit/icons";
import { useFirstMenu } from "../kit/later";
import { IconButton } from "../kit/plain";
import type { ChoiceProps } from "./columns";

/** Which columns the list has. It is opened as it is made. */
export default function ColumnMenu({ columns }: ChoiceProps) {
  const { opened, setOpened, button } = useFirstMenu();
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" shadow="md" withinPortal trapFocus returnFocus>
      <Popover.Target>
        <IconButton ref={button} tip="Columns" aria-label="Choose columns" onClick={() => setOpened(!opened)}>
          <Icon name="columns" />
        </IconButton>
      </Popover.Target>
      <Popover.Dropdown aria-label="Columns">
        <Stack gap={8}>
          {columns.map((column) => (
            <Checkbox
              key={column.id}
              label={String(column.columnDef.header)}
              checked={column.getIsVisible()}
              onChange={column.getToggleVisibilityHandler()}
            />
          ))}
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}
