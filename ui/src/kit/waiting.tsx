import { useEffect, useState } from "react";

const LATE_MS = 300;

/** Bars in place of what is to come, once the wait is long enough to be noticed. */
export function Waiting({ what, rows = 8 }: { what: string; rows?: number }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), LATE_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="waiting" aria-busy="true" role="status" aria-label={what}>
      {late && Array.from({ length: rows }, (_, row) => <span key={String(row)} />)}
    </div>
  );
}
