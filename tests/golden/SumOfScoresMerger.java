import java.util.Objects;
import org.apache.hudi.common.config.TypedProperties;
import org.apache.hudi.common.engine.RecordContext;
import org.apache.hudi.common.model.HoodieRecord.HoodieRecordType;
import org.apache.hudi.common.model.HoodieRecordMerger;
import org.apache.hudi.common.schema.HoodieSchema;
import org.apache.hudi.common.schema.HoodieSchemaField;
import org.apache.hudi.common.table.read.BufferedRecord;
import org.apache.hudi.common.table.read.BufferedRecords;

/**
 * Adds up scores, and deletes a record whose sum is above 20. Deletes count as of their time, in both directions; a row
 * with the note "stays" cannot be deleted and counts how often it was tried.
 */
public class SumOfScoresMerger implements HoodieRecordMerger {
  @Override
  public <T> BufferedRecord<T> merge(
      BufferedRecord<T> older, BufferedRecord<T> newer, RecordContext<T> context, TypedProperties properties) {
    if (newer.isDelete()) {
      if (!older.isDelete() && text(older, context, "note").equals("stays")) {
        return scored(older, older, score(older, context) + 100, context);
      }
      return time(newer) >= time(older) ? newer : older;
    }
    if (older.isDelete()) {
      return time(newer) >= time(older) ? newer : older;
    }
    int sum = score(older, context) + score(newer, context);
    if (sum > 20) {
      return BufferedRecords.createDelete(newer.getRecordKey(), newer.getOrderingValue());
    }
    return scored(newer, time(newer) >= time(older) ? newer : older, sum, context);
  }

  private static <T> BufferedRecord<T> scored(
      BufferedRecord<T> version, BufferedRecord<T> ordered, int score, RecordContext<T> context) {
    HoodieSchema schema = context.getSchemaFromBufferRecord(version);
    Object[] values = new Object[schema.getFields().size()];
    for (HoodieSchemaField field : schema.getFields()) {
      values[field.pos()] =
          field.name().equals("score") ? score : context.getValue(version.getRecord(), schema, field.name());
    }
    return new BufferedRecord<>(
        version.getRecordKey(),
        ordered.getOrderingValue(),
        context.constructEngineRecord(schema, values),
        context.encodeSchema(schema),
        null);
  }

  private static <T> long time(BufferedRecord<T> version) {
    return ((Number) version.getOrderingValue()).longValue();
  }

  private static <T> int score(BufferedRecord<T> version, RecordContext<T> context) {
    return Integer.parseInt(text(version, context, "score"));
  }

  private static <T> String text(BufferedRecord<T> version, RecordContext<T> context, String column) {
    return Objects.toString(
        context.getValue(version.getRecord(), context.getSchemaFromBufferRecord(version), column));
  }

  @Override
  public HoodieRecordType getRecordType() {
    return HoodieRecordType.SPARK;
  }

  @Override
  public String getMergingStrategy() {
    return "0b8f4b52-9a43-4b8e-8f0e-2f6f6f7c9a34";
  }
}
