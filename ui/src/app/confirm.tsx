import { Button, Group, Modal, Text } from "@mantine/core";
import { useState } from "react";
import { useValue, Value } from "../lib/value";

interface Question {
  title: string;
  consequence: string;
  action: string;
  answer: (yes: boolean) => void;
}

const asked = new Value<Question | null>(null);

/** Asks before something that cannot be undone. */
export function confirm(question: Omit<Question, "answer">): Promise<boolean> {
  return new Promise((answer) => asked.set({ ...question, answer }));
}

export function Confirmation() {
  const question = useValue(asked);
  const [last, setLast] = useState(question); // what is read while the dialog fades
  if (question !== null && question !== last) setLast(question);
  const answer = (yes: boolean) => {
    question?.answer(yes);
    asked.set(null);
  };
  return (
    // A question may be asked from within another dialog, and is then above it.
    <Modal opened={question !== null} onClose={() => answer(false)} title={last?.title} centered zIndex={300}>
      <Text mb="md">{last?.consequence}</Text>
      <Group justify="flex-end" gap="xs">
        <Button variant="default" onClick={() => answer(false)} data-autofocus>
          Cancel
        </Button>
        <Button onClick={() => answer(true)}>{last?.action}</Button>
      </Group>
    </Modal>
  );
}
