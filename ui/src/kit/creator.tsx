/** An address breaks where people read it in two, if it has to. */
export function Creator({ name }: { name: string }) {
  if (name === "") return null;
  const at = name.indexOf("@") + 1;
  return (
    <span className="two">
      {name.slice(0, at)}
      <wbr />
      {name.slice(at)}
    </span>
  );
}
