import { Skeleton, Stack } from "@mantine/core";
import { useEffect, useState } from "react";

const LATE_MS = 300;

/** A skeleton, once the wait is long enough to be noticed. */
export function Waiting({ what, rows = 8 }: { what: string; rows?: number }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), LATE_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <Stack gap={8} aria-busy="true" role="status" aria-label={what}>
      {late && Array.from({ length: rows }, (_, row) => <Skeleton key={String(row)} height={28} />)}
    </Stack>
  );
}
