import { useQuery } from "@tanstack/react-query";
import { refusalQuery } from "./calls";
import { CheckField, NumberField, SelectField } from "./fields";
import { read, type Spec } from "./spec";
import { useEditor } from "./state";

const SPOT = [
  { field: "aws_attributes", names: ["ON_DEMAND", "SPOT_WITH_FALLBACK", "SPOT"], bid: "spot_bid_price_percent" },
  {
    field: "azure_attributes",
    names: ["ON_DEMAND_AZURE", "SPOT_WITH_FALLBACK_AZURE", "SPOT_AZURE"],
    bid: "spot_bid_max_price",
  },
  {
    field: "gcp_attributes",
    names: ["ON_DEMAND_GCP", "PREEMPTIBLE_WITH_FALLBACK_GCP", "PREEMPTIBLE_GCP"],
    bid: undefined,
  },
] as const;
type Spot = (typeof SPOT)[number];

/** The words for spot instances: those that the specification uses, or those of the cloud that its node type is named after. */
export function spotOf(spec: Spec): Spot {
  const type = spec.node_type_id ?? "";
  const [aws, azure, gcp] = SPOT;
  const used = SPOT.find((each) => read(spec, [each.field]) !== undefined);
  return used ?? (type.startsWith("Standard_") ? azure : /^[a-z]\d+[a-z]?-/.test(type) ? gcp : aws);
}

export function SpotFields() {
  const { draft } = useEditor();
  const { field, names, bid } = spotOf(draft);
  const encryption = useQuery(refusalQuery("enable_local_disk_encryption", true, draft)).data;
  const [onDemand, fallback, spot] = names;
  const availability = read(draft, [field, "availability"]);
  return (
    <>
      <SelectField
        path={[field, "availability"]}
        label="Availability"
        clear="On demand"
        help="Where there is no spot market, every node is on demand, and the RUNNING event says so."
        data={[
          { value: onDemand, label: "On demand" },
          { value: fallback, label: "Spot with fallback to on demand" },
          { value: spot, label: "Spot only" },
        ]}
      />
      {availability !== undefined && availability !== onDemand && (
        <div className="beside">
          <NumberField
            path={[field, "first_on_demand"]}
            label="First nodes on demand"
            min={0}
            w={160}
            help="The driver is the first node."
          />
          {bid !== undefined && (
            <NumberField
              path={[field, bid]}
              label={bid === "spot_bid_max_price" ? "Highest price per hour" : "Highest bid in % of the price"}
              decimals
              w={200}
              help="Stored only. Brickyard does not bid for spot capacity."
            />
          )}
        </div>
      )}
      <CheckField
        path={["enable_elastic_disk"]}
        label="Autoscaling local storage"
        on={undefined}
        off={false}
        defaultOn
        help="Nodes share the disk of their machine."
      />
      <CheckField path={["enable_local_disk_encryption"]} label="Encrypt local disks" refusal={encryption} />
    </>
  );
}
