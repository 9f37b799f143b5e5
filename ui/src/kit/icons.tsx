const PATHS = {
  compute: "M4 6h16v5H4zM4 13h16v5H4zM7 8.5h.01M7 15.5h.01",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  play: "M7 5l12 7-12 7z",
  stop: "M6 6h12v12H6z",
  restart: "M20 11a8 8 0 1 0-2.3 6.3M20 5v6h-6",
  pin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6l1.4 1.4M17 17l1.4 1.4M5.6 18.4L7 17M17 7l1.4-1.4",
  moon: "M19 14a8 8 0 0 1-9-9 7.5 7.5 0 1 0 9 9z",
  columns: "M4 5h16v14H4zM10 5v14M15 5v14",
  rows: "M4 6h16M4 10h16M4 14h16M4 18h16",
  close: "M6 6l12 12M18 6L6 18",
  filter: "M4 6h16M7 12h10M10 18h4",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  up: "M6 15l6-6 6 6",
  down: "M6 9l6 6 6-6",
  keyboard: "M3 7h18v10H3zM7 10h.01M11 10h.01M15 10h.01M8 14h8",
  out: "M14 5h5v14h-5M4 12h10M10 8l4 4-4 4",
  next: "M9 6l6 6-6 6",
  plus: "M12 5v14M5 12h14",
  lock: "M6 11h12v9H6zM8.5 11V7.5a3.5 3.5 0 0 1 7 0V11",
  grip: "M9 6h.01M15 6h.01M9 12h.01M15 12h.01M9 18h.01M15 18h.01",
  pencil: "M4 20l1-4L16 5l3 3L8 19z",
  check: "M5 12l5 5L19 7",
  alert: "M12 4l9 16H3zM12 10v4M12 17h.01",
  people:
    "M9 5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM3 20a6 6 0 0 1 12 0M16 5.5a3.5 3.5 0 0 1 0 6.5M21 20a6 6 0 0 0-3.5-5.4",
  eye: "M2 12s4-6.5 10-6.5S22 12 22 12s-4 6.5-10 6.5S2 12 2 12zM12 9.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6z",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  clock: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4.5l3 2",
  coins: "M4 20V10h4v10zM10 20V4h4v16zM16 20v-7h4v7z",
  history: "M4 12a8 8 0 1 0 2.6-5.9M4 4v4h4M12 8v4.5l3 2",
  prompt: "M5 6l6 6-6 6M13 18h7",
  database:
    "M5 6c0-1.7 3-3 7-3s7 1.3 7 3-3 3-7 3-7-1.3-7-3zM5 6v12c0 1.7 3 3 7 3s7-1.3 7-3V6M5 12c0 1.7 3 3 7 3s7-1.3 7-3",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16, filled = false }: { name: IconName; size?: number; filled?: boolean }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill={filled ? "currentColor" : "none"}
      stroke="currentColor"
      strokeWidth={name === "more" || name === "grip" ? 3 : 1.8}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Mark() {
  return (
    <svg className="mark" viewBox="0 0 24 24" width={22} height={22} aria-hidden="true">
      <path d="M2 4h9v4.5H2zM13 4h9v4.5h-9zM2 10h4v4.5H2zM8 10h8v4.5H8zM18 10h4v4.5h-4zM2 16h9v4.5H2zM13 16h9v4.5h-9z" />
    </svg>
  );
}
