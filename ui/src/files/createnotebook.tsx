import { Modal, NativeSelect, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { DialogForm } from "../kit/forms";
import { createNotebook } from "./calls";
import { apiPath } from "./paths";

const LANGUAGES = [
  { value: "PYTHON", label: "Python" },
  { value: "SQL", label: "SQL" },
] as const;

export function CreateNotebook({ parent, close }: { parent: string; close: () => void }) {
  const [name, setName] = useState("");
  const [language, setLanguage] = useState<(typeof LANGUAGES)[number]["value"]>("PYTHON");
  const navigate = useNavigate();
  const submit = async () => {
    const path = apiPath(`${parent}/${name.trim()}`);
    await createNotebook(path, language);
    await navigate({ to: "/workspace/notebook", search: { path } });
  };
  return (
    <Modal opened onClose={close} title="Create a notebook" centered>
      <DialogForm action="Create" submit={submit} close={close}>
        <TextInput
          label="Name"
          description={`In ${parent}`}
          required
          spellCheck={false}
          data-autofocus
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <NativeSelect
          label="Language"
          description="Of cells that name no other"
          data={[...LANGUAGES]}
          value={language}
          onChange={(event) => setLanguage(event.currentTarget.value as typeof language)}
        />
      </DialogForm>
    </Modal>
  );
}
