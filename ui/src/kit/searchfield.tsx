import { useEffect, useState } from "react";
import { Icon } from "./icons";
import { IconButton } from "./plain";
import { useTyping } from "./typing";

interface Props {
  text: string;
  change: (text: string) => void;
  by?: string; // what of the list's objects is searched
}

/** The search field of a list. */
export function Search({ text, change, by = "name or id" }: Props) {
  const [typed, setTyped] = useState(text);
  const soon = useTyping(change, 150);
  useEffect(() => setTyped(text), [text]);
  return (
    <div className="searchfield">
      <Icon name="search" />
      <input
        data-search
        aria-label={`Search by ${by}`}
        placeholder={`Search by ${by}`}
        value={typed}
        onChange={(event) => {
          setTyped(event.currentTarget.value);
          soon(event.currentTarget.value);
        }}
      />
      {typed !== "" && (
        <IconButton
          className="small"
          aria-label="Clear the search"
          onClick={() => {
            setTyped("");
            change("");
          }}
        >
          <Icon name="close" size={12} />
        </IconButton>
      )}
    </div>
  );
}
