import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { meQuery } from "../access/rights";
import { connection, tellsChanges } from "../api/live";
import { session, workspaceName } from "../api/session";
import { Watches } from "../clusters/watch";
import { asked } from "../kit/confirm";
import { Icon, type IconName, Mark } from "../kit/icons";
import { help, palette, useKeys } from "../kit/keys";
import { complete, later } from "../kit/later";
import { outdated } from "../kit/look";
import { IconButton, PlainButton } from "../kit/plain";
import { title } from "../kit/title";
import { early, loadNotices, toasting } from "../kit/toasts";
import { useValue } from "../lib/value";
import { useScheme } from "./scheme";

const Notices = lazy(loadNotices);
const Dialogs = lazy(later(() => import("./dialogs")));
const UserMenu = lazy(later(() => import("./usermenu")));

export function Shell() {
  useKeys();
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <nav className="rail" aria-label="Pages">
        <Link to="/compute" className="brand" aria-label={workspaceName()}>
          <Mark />
          <span title={workspaceName()}>{workspaceName()}</span>
        </Link>
        <Place to="/compute" icon="compute" label="Compute" />
        <Place to="/jobs" icon="play" label="Jobs" />
        <Place to="/schedules" icon="clock" label="Schedules" />
        <Place to="/files" icon="rows" label="Files" />
        <Place to="/catalog" icon="database" label="Catalog" />
        <Place to="/sql/editor" icon="prompt" label="SQL editor" />
        <Place to="/sql/history" icon="history" label="Query history" />
        <Place to="/spend" icon="coins" label="Spend" />
        <Admin />
        <div className="rest" />
        <Scheme />
        <IconButton
          tip="Keyboard shortcuts (?)"
          aria-label="Show keyboard shortcuts"
          className="keyhelp"
          onClick={() => help.set(true)}
        >
          <Icon name="keyboard" />
        </IconButton>
        <User />
      </nav>
      <main id="main" tabIndex={-1}>
        <Outdated />
        <Lost />
        <Outlet />
      </main>
      <Asked />
      <Told />
      <Watches />
      <Arrival />
    </div>
  );
}

/** Whether it was wanted once. */
function useEver(wanted: boolean): boolean {
  const [ever, setEver] = useState(wanted);
  if (wanted && !ever) setEver(true);
  return ever;
}

/** Where messages are shown, from the first one on; made when there is time. */
function Told() {
  const wanted = [useValue(complete), useValue(toasting)].some(Boolean);
  if (!useEver(wanted)) return null;
  return (
    <Suspense fallback={<Early />}>
      <Notices />
    </Suspense>
  );
}

function Early() {
  const texts = useValue(early);
  return (
    <div className={texts.length > 0 ? "early" : undefined} role="status">
      {texts.join("\n")}
    </div>
  );
}

/** For who does not see that another page has come: the focus goes to it, and its title is said. */
function Arrival() {
  const { pathname } = useLocation();
  const text = useValue(title);
  const first = useRef({ pathname, text: "" });
  if (first.current.text === "") first.current.text = text; // said by the browser itself
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (first.current.pathname === pathname) return;
    first.current.pathname = "";
    const main = document.getElementById("main");
    const focused = document.activeElement;
    if (focused?.matches("input, textarea") && main?.contains(focused)) return; // a form may begin in its first field
    main?.focus({ preventScroll: true });
  }, [pathname]);
  useEffect(() => {
    if (text !== first.current.text) setSaid(text);
  }, [text]);
  return (
    <div className="unseen" role="status" aria-label="Page">
      {said}
    </div>
  );
}

/** The dialogs that any page can open, from the first one on; made when there is time, so that they open at once. */
function Asked() {
  const wanted = [
    useValue(complete),
    useValue(help),
    useValue(palette),
    useValue(asked) !== null,
    useValue(session.expired),
  ].some(Boolean);
  if (!useEver(wanted)) return null;
  return (
    <Suspense fallback={null}>
      <Dialogs />
    </Suspense>
  );
}

/** Only administrators see it; the server decides what they may. */
function Admin() {
  const me = useQuery(meQuery).data;
  if (!me?.groups.has("admins")) return null;
  return <Place to="/admin" icon="people" label="Admin" />;
}

/** A page of the rail. */
function Place({ to, icon, label }: { to: string; icon: IconName; label: string }) {
  return (
    <Link to={to} className="page" activeProps={{ "aria-current": "page" }}>
      <Icon name={icon} />
      <span>{label}</span>
    </Link>
  );
}

function Scheme() {
  const { icon, label, change } = useScheme();
  return (
    <IconButton tip={label} aria-label={label} onClick={change}>
      <Icon name={icon} />
    </IconButton>
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
  const [opened, setOpened] = useState(false);
  const button = (
    <IconButton
      className="framed"
      aria-label={name ? `Signed in as ${name}` : "Account"}
      aria-haspopup="menu"
      aria-expanded={false}
      onClick={() => setOpened(true)}
    >
      {name.slice(0, 1).toUpperCase()}
    </IconButton>
  );
  if (!opened) return button;
  return (
    <Suspense fallback={button}>
      <UserMenu name={name} />
    </Suspense>
  );
}

/** Says that parts of the page can no longer be loaded. What is typed here is the reader's to save first. */
function Outdated() {
  if (!useValue(outdated)) return null;
  return (
    <div className="lost" role="status">
      A newer version of this page is available, and parts of this one no longer open.{" "}
      <PlainButton onClick={() => location.reload()}>Reload the page</PlainButton>
    </div>
  );
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
      The connection to the server is interrupted. This page retries every few seconds and may be out of date.
    </div>
  );
}
