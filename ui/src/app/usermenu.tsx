import { Menu } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { remote } from "../api/session";
import { Icon } from "../kit/icons";
import { useFirstMenu } from "../kit/later";
import { IconButton } from "../kit/plain";
import { logOut } from "./logout";

/** Who is signed in, and what is theirs. It is opened as it is made. */
export default function UserMenu({ name }: { name: string }) {
  const { opened, setOpened, button } = useFirstMenu();
  return (
    <Menu opened={opened} onChange={setOpened} returnFocus position="right-end" withinPortal>
      <Menu.Target>
        <IconButton ref={button} className="framed" aria-label={name ? `Signed in as ${name}` : "Account"}>
          {name.slice(0, 1).toUpperCase()}
        </IconButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{name}</Menu.Label>
        {remote() !== "" && <Menu.Label>{`at ${remote()}`}</Menu.Label>}
        <Menu.Item renderRoot={(props) => <Link {...props} to="/settings" />} leftSection={<Icon name="lock" />}>
          Settings and tokens
        </Menu.Item>
        <Menu.Item leftSection={<Icon name="out" />} onClick={() => void logOut()}>
          Log out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
