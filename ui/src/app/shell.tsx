import { ActionIcon, Button, Group, Menu, Modal, Text, Tooltip, useMantineColorScheme } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { meQuery } from "../access/rights";
import { connection, tellsChanges } from "../api/live";
import { remote, session } from "../api/session";
import { useValue } from "../lib/value";
import { Confirmation } from "./confirm";
import { Icon, Mark } from "./icons";
import { help, Keys } from "./keys";
import { Toasts } from "./toasts";
import { Watches } from "./watch";

export function Shell() {
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <nav className="rail" aria-label="Pages">
        <Link to="/compute" className="brand" aria-label="Brickyard">
          <Mark />
          <span>Brickyard</span>
        </Link>
        <Link to="/compute" className="page" activeProps={{ "aria-current": "page" }}>
          <Icon name="compute" />
          <span>Compute</span>
        </Link>
        <Admin />
        <div className="rest" />
        <Scheme />
        <Tooltip label="Keys (?)" position="right">
          <ActionIcon variant="subtle" color="gray" aria-label="Show the keys" onClick={() => help.set(true)}>
            <Icon name="keyboard" />
          </ActionIcon>
        </Tooltip>
        <User />
      </nav>
      <main id="main" tabIndex={-1}>
        <Lost />
        <Outlet />
      </main>
      <Keys />
      <Confirmation />
      <Expired />
      <Toasts />
      <Watches />
    </div>
  );
}

/** Only administrators see it; the server decides what they may. */
function Admin() {
  const me = useQuery(meQuery).data;
  if (!me?.groups.has("admins")) return null;
  return (
    <Link to="/admin" className="page" activeProps={{ "aria-current": "page" }}>
      <Icon name="people" />
      <span>Admin</span>
    </Link>
  );
}

function Scheme() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const dark = colorScheme === "dark" || (colorScheme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  const label = dark ? "Use light colours" : "Use dark colours";
  return (
    <Tooltip label={label} position="right">
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label={label}
        onClick={() => setColorScheme(dark ? "light" : "dark")}
      >
        <Icon name={dark ? "sun" : "moon"} />
      </ActionIcon>
    </Tooltip>
  );
}

function User() {
  const [name, setName] = useState("");
  useEffect(() => {
    session.get().then(
      (found) => setName(found.user_name),
      () => {},
    );
  }, []);
  return (
    <Menu position="right-end" withinPortal>
      <Menu.Target>
        <ActionIcon variant="default" radius="xl" aria-label={name ? `Signed in as ${name}` : "Account"}>
          {name.slice(0, 1).toUpperCase()}
        </ActionIcon>
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

/** As a form: the answer takes the cookie away and leads to the log-in page. */
async function logOut() {
  const form = document.createElement("form");
  form.method = "post";
  form.action = "/logout";
  const field = document.createElement("input");
  field.type = "hidden";
  field.name = "csrf_token";
  field.value = (await session.get()).csrf_token;
  form.append(field);
  document.body.append(form);
  form.submit();
}

const PATIENCE_MS = 1500;

/** Says that the page is not told of changes, once that lasts. */
function Lost() {
  const state = useValue(connection);
  const [lost, setLost] = useState(false);
  useEffect(() => {
    if (state === "live" || !tellsChanges()) {
      setLost(false);
      return;
    }
    const timer = setTimeout(() => setLost(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [state]);
  if (!lost) return null;
  return (
    <div className="lost" role="status">
      The connection to the server is interrupted. The page tries again every few seconds; what you see may be old.
    </div>
  );
}

function Expired() {
  const expired = useValue(session.expired);
  const queries = useQueryClient();
  const [still, setStill] = useState(false);
  useEffect(() => {
    if (!expired) return;
    const look = () => void session.renew();
    addEventListener("focus", look);
    return () => removeEventListener("focus", look);
  }, [expired]);
  const goOn = async () => {
    const renewed = await session.renew();
    setStill(!renewed);
    if (renewed) void queries.invalidateQueries();
  };
  return (
    <Modal opened={expired} onClose={() => {}} withCloseButton={false} title="Your session has ended" centered>
      <Text mb="md">Log in again in another tab, then go on here: nothing on this page is lost.</Text>
      {still && (
        <Text mb="md" c="var(--mantine-color-error)" role="alert">
          You are not logged in yet.
        </Text>
      )}
      <Group justify="flex-end" gap="xs">
        <Button variant="default" onClick={() => void goOn()}>
          Go on
        </Button>
        <Button component="a" href="/login" target="_blank" rel="noopener" data-autofocus>
          Log in
        </Button>
      </Group>
    </Modal>
  );
}
